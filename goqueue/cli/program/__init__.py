"""The parts that all commands share: calling the broker, printing, running and ending."""

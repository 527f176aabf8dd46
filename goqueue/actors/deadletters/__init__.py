"""Dead letters: transfers to their topic, and the redrive that sends them back."""

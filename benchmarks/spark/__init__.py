"""goqueue in Spark, on two cores, with the broker beside it: `./dev bench spark`."""

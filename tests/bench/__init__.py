"""What `make bench` measures: every figure beside a bound that the same run measured."""

"""The think-negotiate-act loop."""

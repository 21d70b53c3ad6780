"""The critic: lints, scans, checks drift, and judges results."""

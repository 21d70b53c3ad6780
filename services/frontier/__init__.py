"""Frontier: papers, news, research briefs."""

"""Telling people what happens, by the channels that they set, and acting on what they reply there."""

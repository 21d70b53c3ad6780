"""Times in plain English: days, times of day, spans and repetitions become moments and rules of RFC 5545."""

"""Text: Markdown by its blocks, words and stems, titles, excerpts, shortening."""

"""Text: stop words and stems, Markdown by its blocks, shortening."""

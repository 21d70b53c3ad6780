"""The scout: reads repositories, documents and web pages."""

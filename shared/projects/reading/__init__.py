"""What a project says of itself: each of its files is read here, once, and nowhere else."""

from shared.projects.reading.project import Project, read_project
from shared.projects.reading.project_files import ProjectFiles

__all__ = ["Project", "ProjectFiles", "read_project"]

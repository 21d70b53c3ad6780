"""What agents can be taught: one ``*Skill`` a file; a profile's ``mixins`` name those of an agent."""

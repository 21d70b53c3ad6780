"""What agents can be taught: one ``*SkillMixin`` a file; a profile's ``mixins`` name those of an agent."""

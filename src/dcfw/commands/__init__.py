"""The commands of the command line, one module for each (or for each group).

A module here has a function ``register(app)`` that adds its commands to the Typer app; ``dcfw.cli`` finds
it by itself.  At the top of a module only the standard library and typer are imported, so that ``--help``
stays quick.  Commands print their answer on the standard output and everything else on the standard
error stream, and raise ordinary exceptions with a helpful message: ``dcfw.cli`` turns them into one line
and exit code 1.
"""

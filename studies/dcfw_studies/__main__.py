"""``python -m dcfw_studies`` is the command line of the studies."""

from dcfw_studies.commands import app

if __name__ == "__main__":
    app(prog_name="dcfw-studies")

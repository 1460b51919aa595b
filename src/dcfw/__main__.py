"""``python -m dcfw`` is the command line."""

from dcfw.cli import app

if __name__ == "__main__":
    app(prog_name="dcfw")

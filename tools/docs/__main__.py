"""Write every generated page anew."""

from tools.docs.pages import write_all

if __name__ == "__main__":
    write_all()

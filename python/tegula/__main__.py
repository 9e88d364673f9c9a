"""`python -m tegula script.py [args]`: runs a script in which `triton` means tegula."""
import importlib.abc
import importlib.util
import runpy
import sys


class _Alias(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports of triton.X give tegula.X itself, not a copy."""

    def find_spec(self, name, path=None, target=None):
        if name == "triton" or name.startswith("triton."):
            return importlib.util.spec_from_loader(name, self, is_package=True)
        return None

    def create_module(self, spec):
        name = "tegula" + spec.name[len("triton"):]
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as e:
            raise ModuleNotFoundError(f"{spec.name}: this version of tegula does not provide it ({e})", name=spec.name) from None

    def exec_module(self, module):
        pass


def install():
    if not any(isinstance(f, _Alias) for f in sys.meta_path):
        sys.meta_path.insert(0, _Alias())


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print("usage: python -m tegula script.py [arguments]\nRuns the script with `triton` meaning tegula.")
        return 2
    install()
    script = sys.argv[1]
    sys.argv = sys.argv[1:]
    try:
        runpy.run_path(script, run_name="__main__")
    except FileNotFoundError as e:
        if e.filename != script:
            raise
        print(f"python -m tegula: no such file: {script}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

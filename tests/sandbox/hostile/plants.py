# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os, site, sys, sysconfig

places = {*sys.path, *sysconfig.get_paths().values(), site.getusersitepackages(), "/etc", "/packages",
          os.path.dirname(os.__file__), os.path.dirname(sys.executable), os.path.expanduser("~/..")}
try:
    import numpy

    places.add(os.path.dirname(numpy.__file__))
except ImportError:
    pass
here = os.path.realpath(".")
for place in sorted(places - {""}):
    for name in ("sitecustomize.py", "usercustomize.py", "x.pth", "json.py", "python3"):
        path = os.path.join(place, name)
        if os.path.realpath(path).startswith(os.path.dirname(here) + os.sep):
            continue
        for act in (lambda: open(path, "a").close(), lambda: os.symlink("/", path), lambda: os.mkdir(path)):
            try:
                act()
                print("ESCAPED:", path)
            except OSError:
                pass

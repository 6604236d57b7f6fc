# HOSTILE TEST PROGRAM - run only inside a sandbox.
import gc, os, sys, types

frame = sys._getframe()
while frame:
    if "HOSTILE" not in frame.f_code.co_name and frame.f_code.co_filename != __file__:
        print(frame.f_code.co_filename)
    frame = frame.f_back
for each in gc.get_objects():
    if isinstance(each, types.ModuleType) and "landlock" in each.__name__:
        print("ESCAPED:module", each.__name__)

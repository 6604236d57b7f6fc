# HOSTILE TEST PROGRAM - run only inside a sandbox.
def f():
    return f()


f()

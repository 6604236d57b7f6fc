# HOSTILE TEST PROGRAM - run only inside a sandbox.
class Forever:
    def __del__(self):
        while True:
            pass


kept = Forever()
print("done")

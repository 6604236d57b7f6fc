# HOSTILE TEST PROGRAM - run only inside a sandbox.
print(input("password: "))

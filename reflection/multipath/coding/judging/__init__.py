"""Whether code is right: values compared, tests that fail, and tests that are not believed."""

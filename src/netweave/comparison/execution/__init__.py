"""Both nets run on the same inputs, each in the form that it takes."""

"""The same nets by Keras and here."""

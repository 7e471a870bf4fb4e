class Cut(ConnectionError):
    """The connection ends here."""

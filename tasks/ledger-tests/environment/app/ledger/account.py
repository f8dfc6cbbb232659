"""An account is a list of postings; its balance may not fall below its limit."""


class Account:
    def __init__(self, limit=0, postings=[]):
        self.limit = limit
        self.postings = postings

    @property
    def balance(self):
        return sum(self.postings)

    def post(self, cents):
        """Adds a posting. Raises ValueError, and adds nothing, if the balance would fall below the limit."""
        self.postings.append(cents)
        if self.balance <= self.limit:
            raise ValueError("the limit of the account is reached")

"""The store on MongoDB. The drivers have their home here."""

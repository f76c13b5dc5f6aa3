"""The daemon of a home and how clients come to it. Only what a client needs is imported by a client."""

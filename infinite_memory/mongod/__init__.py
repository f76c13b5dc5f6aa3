"""The managed MongoDB server, for homes whose settings name none."""

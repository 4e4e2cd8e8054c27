"""The auction house of NEXMark: persons, auctions and bids."""

"""Made-up fleets in virtual time: the placement that the server uses, beside other rules."""

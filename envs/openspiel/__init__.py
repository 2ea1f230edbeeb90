"""The common-payoff games of OpenSpiel, such as Hanabi, as environments: `openspiel:hanabi(players=2)`."""

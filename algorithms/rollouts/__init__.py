"""From starts to groups of joint samples with rewards: chains and trees."""

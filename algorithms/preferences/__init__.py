"""Learning from preferences: pairs of joint samples, their loss, and the learner that steps along it."""

"""What judges: where a marginal predictor will miss, where intervals did, how many rows it takes, what to use."""

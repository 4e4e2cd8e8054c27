"""Rules tried on history: what they would have raised, what that costs, and one alert as it is shown. Begin with backtest."""

"""What is drawn or told of runs: Gantt charts, graphs of assets, histories, replays and simulations."""

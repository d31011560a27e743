"""Other doors: tasks, runs, and the RunPod-shaped surface."""

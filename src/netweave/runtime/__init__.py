"""Running a graph: backends, memory plans, the dependency engine, and images as inputs."""

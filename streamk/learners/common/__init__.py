"""Parts that several learners share: labels and classes, losses and steps, merging, threads."""

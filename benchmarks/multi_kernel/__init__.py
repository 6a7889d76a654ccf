"""What the parts of `MultiKernel` are good for, whether it knows what it knows, and how it lasts.

direct       the learner itself, without River's adapter, in the battery's loop
variants     the learner less one of its parts
ablation     all variants on the battery's streams
calibration  probabilities against frequencies, intervals against the numbers that came
losses       numbers learned by one loss or another
imbalance    decisions by class weights
trouble      events of a moving concept, now and then spoilt
endurance    millions of them, in a process of its own
"""

"""The kernel machines of the paper's section 6, each as its own paper states it.

norma       NORMA (Kivinen, Smola and Williamson 2004), a kernel expansion that grows
sdca        stochastic dual coordinate ascent (Shalev-Shwartz and Zhang 2013), on kernel values and
            on fixed features
pegasos     stochastic subgradients of the primal (Shalev-Shwartz et al. 2007), by scikit-learn's
            `SGDClassifier`, on fixed features
expansion   the sum of kernels that NORMA and kernel SDCA share

Labels are -1 and +1, the kernel is exp(-gamma |x-y|^2), the loss is the hinge, and none has an
intercept: the same regularized risk, ``mean hinge + nu/2 |f|^2``, has the same minimum for all.
"""

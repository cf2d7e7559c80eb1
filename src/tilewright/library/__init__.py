"""Problems, configs, kernels and the host reference."""

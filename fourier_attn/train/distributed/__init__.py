"""Several processes and devices: how they find each other, agree, stop and share arrays."""

"""The suite: networks that differ in their mixer alone, with seeds; what they found; statistics."""

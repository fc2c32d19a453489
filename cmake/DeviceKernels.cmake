# The generic kernel source is compiled once per instruction set; the choice falls at run time.

"""Support vector machines: the slack form, the regularized form, their losses, and the way between them."""

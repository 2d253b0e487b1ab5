"""How right boxes and masks are: parts of each image, from which the figures of any weighted set of images follow."""

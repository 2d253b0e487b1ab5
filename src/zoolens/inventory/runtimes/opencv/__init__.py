"""OpenCV's DNN module."""

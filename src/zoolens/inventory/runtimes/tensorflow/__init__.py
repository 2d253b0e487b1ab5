"""TensorFlow and Keras: SavedModels, frozen graphs and Keras files."""

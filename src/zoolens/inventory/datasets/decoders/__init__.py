"""Libraries other than Pillow that turn an encoded image into pixels."""

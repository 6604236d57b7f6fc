"""The length of a text, and which length its query asks for."""

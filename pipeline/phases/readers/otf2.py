OTF2 = None
